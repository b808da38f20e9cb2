"""Why a workload waits and what would let it in. Start at explain.py; the answer is value.py's, its words are words.py's."""
