"""Builds the wheel: the package, and the .pth file that loads it when Python starts. The same bytes each time."""

import base64
import hashlib
import pathlib
import zipfile

HERE = pathlib.Path(__file__).parent
NAME, VERSION = "tare_trace_shim", "0.1.0"
INFO = f"{NAME}-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: tare-trace-shim
Version: {VERSION}
Summary: Shows Tare's kernel side which request a write to a socket belongs to
License: Apache-2.0
Requires-Python: >=3.9
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: backend.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {f"{NAME}/{p.name}": p.read_bytes() for p in sorted((HERE / NAME).glob("*.py"))}
    files[f"{NAME}.pth"] = (HERE / f"{NAME}.pth").read_bytes()
    files[f"{INFO}/METADATA"] = METADATA.encode()
    files[f"{INFO}/WHEEL"] = WHEEL.encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{INFO}/RECORD"] = f"{record}{INFO}/RECORD,,\n".encode()
    wheel = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980: no time of the build
            entry.external_attr = 0o644 << 16
            z.writestr(entry, data)
    return wheel
