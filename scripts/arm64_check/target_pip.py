"""pip as it resolves on another machine: `python target_pip.py MARKERS ARGUMENT...`

`--platform` and `--python-version` choose the wheels, but pip evaluates markers such as
`python_version < '3.11'` or `platform_machine == 'aarch64'` for the machine and the Python that it
runs on. MARKERS, a JSON object, are the other machine's; pip's report says which were in force.
"""

import json
import sys

from pip._vendor.packaging import markers

target = json.loads(sys.argv[1])
markers.default_environment = lambda: dict(target)

from pip._internal.cli.main import main  # after it, for what takes the function by its name

sys.exit(main(sys.argv[2:]))
