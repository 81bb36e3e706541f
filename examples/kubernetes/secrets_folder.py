"""Writes Kubernetes secrets to a folder, exactly as they are mounted in a pod.

    secrets/source-user/..2026_11_16_10_00_00.1/user.crt    the file
    secrets/source-user/..data                              -> ..2026_11_16_10_00_00.1
    secrets/source-user/user.crt                            -> ..data/user.crt

The kubelet updates a secret by writing a new dated folder and replacing the link `..data`, so all keys change at once.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path


def mount(folder: Path, secret: str, keys: Mapping[str, bytes]) -> None:
    """Creates or updates a secret."""
    home = folder / secret
    home.mkdir(parents=True, exist_ok=True)
    dated = home / f"..{time.strftime('%Y_%m_%d_%H_%M_%S', time.gmtime())}.{time.time_ns()}"
    dated.mkdir()
    for key, content in keys.items():
        file = dated / key
        file.touch(mode=0o440)
        file.write_bytes(content)
        if not (home / key).is_symlink():
            (home / key).symlink_to(Path("..data") / key)
    new_link = home / "..data_tmp"
    new_link.symlink_to(dated.name)
    os.replace(new_link, home / "..data")  # noqa: PTH105  # replaces the link itself, not its target
