"""The torch front end: exported modules -> Graph. `export` reads a program; the other files hold the table of ATen operators."""
