# SPDX-License-Identifier: Apache-2.0
"""A reader and a writer of .safetensors for tests. They share nothing with those of the program."""
import json
import struct

import numpy

# NumPy has no bf16: arrays of uint16 hold its bits.
DTYPES = {"F32": numpy.float32, "F16": numpy.float16, "BF16": numpy.uint16, "BOOL": numpy.bool_}


def write_tensors(path, tensors, **metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        dtype = {value: key for key, value in DTYPES.items()}[array.dtype.type]
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    return {
        name: numpy.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }
