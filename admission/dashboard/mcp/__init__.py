"""The routes as tools of the Model Context Protocol.

tools           the tools
mcp_server      their server, by the SDK
mcp_endpoint    the same over HTTP
asgi            an ASGI application behind aiohttp
"""
