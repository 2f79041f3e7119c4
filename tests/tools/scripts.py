"""What the tests of the scripts share: where they are, and how to import one that has no .py ending."""

import importlib.machinery
import importlib.util
import os
import stat
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


def load(name):
    path = str(TOOLS / name)
    loader = importlib.machinery.SourceFileLoader(name.replace(".py", ""), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def write(path, text, executable=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        os.chmod(path, path.stat().st_mode | stat.S_IXUSR)
    return path
