"""Public data sets as sparse frames and pairs: each file knows one layout on disk and reads it from a named folder."""
