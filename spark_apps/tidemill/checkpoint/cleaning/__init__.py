"""Files of a files source that were read: which of them nothing needs any more, and where they have gone."""
