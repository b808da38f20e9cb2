"""Attacks: what a hostile tenant tries, on the embedded server and on the real control plane.

To add one: write an async test in a module of this package that takes the fixture `battlefield` and bears
`@pytest.mark.asyncio(loop_scope="package")`. Act as `battlefield.tenant`, a client of a ServiceAccount with the role `edit`
in the namespace `battlefield.namespace` and no other right; prepare and look with `battlefield.admin`. `battlefield.site` is
the tenant's corner: nodes, a flavor, the ClusterQueue `tenant` and the LocalQueue `lq`. Make further ones with
`Site(battlefield.admin, NAME)`. One stage serves the whole package, so give your objects names of their own, and delete
what would hold quota.

After each test the fixture `unharmed` asks by itself whether all processes still are the ones that were started and
whether a job of an honest tenant is admitted. Name the line of the issue in the docstring of the test, and enter the test
into SECURITY.md.
"""
