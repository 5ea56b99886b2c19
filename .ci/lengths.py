"""Which modules and functions ask to be split: a list to read, never a failure."""

import ast
from pathlib import Path

MODULE, FUNCTION = 300, 40

for path in sorted(Path("src").rglob("*.py")):
    text = path.read_text(encoding="utf-8")
    if (lines := text.count("\n")) > MODULE:
        print(f"warning: {path} has {lines} lines, over {MODULE}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (lines := node.end_lineno - node.lineno + 1) > FUNCTION:
            print(f"warning: {path}:{node.lineno} {node.name} has {lines} lines, over {FUNCTION}")
