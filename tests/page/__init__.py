"""The dashboard's page in a headless Chromium: `make e2e-page`."""
