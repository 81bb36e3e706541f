"""Kubernetes secrets as a folder, exactly as a pod that mounts them sees it.

    secrets/source-user/..2026_11_16_10_00_00.1/user.crt    the file
    secrets/source-user/..data                              -> ..2026_11_16_10_00_00.1
    secrets/source-user/user.crt                            -> ..data/user.crt

The kubelet changes a secret by writing a new dated folder and turning `..data` to it, so all keys change at once.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path


def mount(folder: Path, secret: str, keys: Mapping[str, bytes]) -> None:
    """Writes a secret, or changes one that is there."""
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
    turned = home / "..data_tmp"
    turned.symlink_to(dated.name)
    os.replace(turned, home / "..data")  # noqa: PTH105  # a link itself is to be replaced, not what it leads to
