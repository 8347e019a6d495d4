"""The long runs use the flows of the short ones."""

from __future__ import annotations

from tests.replicate.conftest import flow as flow
from tests.replicate.conftest import flow_factory as flow_factory
