"""One adapter per job kind, all behind one small protocol (`base`) and one registry (`registry`)."""
