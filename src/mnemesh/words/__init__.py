"""Files that people write: values that never change, parts by their names, and how what is wrong is refused. Studies and networks share it."""
