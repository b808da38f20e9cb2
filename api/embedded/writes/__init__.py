"""One write, from the request body to the stored object, in the real server's order.

change              the steps of a write
decode, complete    before webhooks: prunes and defaults the body; after them: system metadata, validation
strategic           strategic merge patch
apply, fields       server-side apply; the leaf fields that it compares
deletion            deletion of one object
binding             the pod subresource that schedulers call
"""
