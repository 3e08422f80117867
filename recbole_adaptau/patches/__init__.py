"""What this package changes in RecBole 1.2.1: `table` lists it, `hook` puts it in place, the other modules do it.

No patch changes what a working run computes, but for what RecBole gets wrong: popularity sampling no longer counts
validation and test interactions, the padding id no longer counts as an item or a user, a given test part no longer
holds what is in its training part, and several processes compute what one would.

Every replacement takes what it replaces as its first argument, `original`; what it repairs, and why, is in the table.
"""
