from collections.abc import Buffer
