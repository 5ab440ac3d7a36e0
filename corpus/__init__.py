"""The corpus stage: web pages in WARC files become token shards of mathematical text (paper, section 2.1)."""
