"""What GPU targets share: layouts inferred, addresses and masks read off the views, statements printed as C++ for one block of
threads. Everything that a chip spells in its own way is a function `ac_*` of the target's device header, or a row of its
instructions.yaml."""
