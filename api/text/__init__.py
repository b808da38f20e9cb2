"""Small languages and bounds of text that users write. Pure.

quantity         Kubernetes' quantities
duration         Go's durations
label_text       label selectors as text
manifests        the only reader of YAML
untrusted_text   bounds text before it is parsed
"""
