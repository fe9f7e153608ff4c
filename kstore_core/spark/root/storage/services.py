"""The object stores that can contain a root: their addresses, their options and their clients.

The library obstore makes the clients. If the options contain no credentials, obstore takes the
credentials from the environment, or from the identity of the machine or pod. Such identities are
instance profiles and web identities on AWS, managed and workload identities on Azure, and service
accounts on Google Cloud.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kstore_core.errors import EngineUnavailableError, SpecError
from kstore_core.hints import install_module

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

__all__ = ["SERVICES", "Service", "checked_options", "client_of", "first_line"]

_CONNECTION = {
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "pool_idle_timeout"),
    *("pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url"),
    *("read_timeout", "root_certificate", "timeout", "user_agent"),
}
_ENDPOINT = re.compile(r"https?://[^\s/]+")
_RETRIES = {"max_retries": 8, "retry_timeout": 180}


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """An object store service.

    Attributes
    ----------
    scheme : str
        The scheme of the addresses that kstore shows.
    container : str
        The service's word for the first part of an address.
    example : str
        An address, for messages.
    variables : str
        The first word of the environment variables from which obstore takes options.
    credentials : str
        The options and environment variables with credentials, for messages.
    options : tuple of str
        The most usual options, for messages.
    aliases : mapping
        The names of options in other libraries, each with obstore's name of the same option.
    """

    scheme: str
    container: str
    example: str
    variables: str
    credentials: str
    options: tuple[str, ...]
    aliases: Mapping[str, str]


_S3 = Service(
    "s3",
    "bucket",
    "s3://bucket/prefix",
    "AWS",
    "storage_options={'access_key_id': ..., 'secret_access_key': ...}, or set AWS_ACCESS_KEY_ID "
    "and AWS_SECRET_ACCESS_KEY",
    (
        *("access_key_id", "secret_access_key", "session_token", "profile", "skip_signature"),
        *("endpoint", "region", "virtual_hosted_style_request", "role_arn"),
        *("web_identity_token_file", "server_side_encryption", "sse_kms_key_id"),
    ),
    {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "endpoint_url": "endpoint",
        "anon": "skip_signature",
    },
)
_GOOGLE = Service(
    "gs",
    "bucket",
    "gs://bucket/prefix",
    "GOOGLE",
    "storage_options={'service_account': '/path/of/the/key.json'}, or set "
    "GOOGLE_APPLICATION_CREDENTIALS",
    ("service_account", "service_account_key", "application_credentials", "base_url"),
    {},
)
_AZURE = Service(
    "abfss",
    "container",
    "abfss://container@account.dfs.core.windows.net/prefix",
    "AZURE",
    "storage_options={'account_key': ...}, or set AZURE_STORAGE_ACCOUNT_KEY",
    (
        *("account_name", "account_key", "sas_key", "client_id", "client_secret", "tenant_id"),
        *("federated_token_file", "use_azure_cli", "endpoint", "skip_signature"),
    ),
    {},
)
SERVICES: Mapping[str, Service] = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GOOGLE,
    "gcs": _GOOGLE,
    "abfss": _AZURE,
    "abfs": _AZURE,
    "az": _AZURE,
}
"""The services by the schemes of their addresses."""


def checked_options(service: Service, options: Mapping[str, Any]) -> dict[str, str | bool | int]:
    """Return storage options by their names in obstore.

    Raise a SpecError if a value is neither text, a boolean nor an integer. The names are checked
    when a client is made.
    """
    for name, value in options.items():
        if not isinstance(value, (str, bool, int)):
            raise SpecError(
                f"the storage option {name!r} is {type(value).__name__}, but must be text, an "
                "integer or a boolean"
            )
    return {service.aliases.get(name, name): value for name, value in options.items()}


@functools.lru_cache(maxsize=64)
def client_of(
    service: Service, container: str, options: tuple[tuple[str, str | bool | int], ...]
) -> Client:
    """Return the client of a bucket or container. Equal arguments share one client.

    Raise an EngineUnavailableError if obstore is not installed. Raise a SpecError if the service
    does not have an option, or if an option's value has the wrong form.
    """
    try:
        import obstore.store as clients
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    except ImportError as error:
        raise EngineUnavailableError(
            f"{service.scheme}:// addresses need the package obstore, which is not installed in "
            f"this Python. Install the package: {install_module('obstore')}"
        ) from error
    config: dict[str, Any] = dict(options)
    retries = {name: _whole(name, config.pop(name, most)) for name, most in _RETRIES.items()}
    # A client that is given connection options ignores all connection options of the environment,
    # so add the options of the environment here.
    variables = {name: f"{service.variables}_{name.upper()}" for name in sorted(_CONNECTION)}
    connection = {name: os.environ[key] for name, key in variables.items() if key in os.environ}
    for name in sorted(_CONNECTION & config.keys()):
        connection[name] = _text(config.pop(name))
    for name in ("endpoint", "base_url"):
        if name in config and not _ENDPOINT.match(str(config[name])):
            raise SpecError(
                f"the storage option {name!r} is {config[name]!r}, not an address such as "
                "https://host:9000"
            )
        if str(config.get(name)).startswith("http://"):
            connection.setdefault("allow_http", "true")
    given: dict[str, Any] = {
        "client_options": connection,
        "retry_config": {
            "max_retries": retries["max_retries"],
            "retry_timeout": timedelta(seconds=retries["retry_timeout"]),
        },
    }
    try:
        if service is _S3:
            profile = _profile(config)
            if profile:
                given["credential_provider"] = _credentials_of(profile, config)
            return clients.S3Store(container, config=_texts(config), **given)
        if service is _GOOGLE:
            return clients.GCSStore(container, config=_texts(config), **given)
        name, _, host = container.partition("@")
        if host:
            config.setdefault("account_name", host.partition(".")[0])
        return clients.AzureStore(name, config=_texts(config), **given)
    except UnknownConfigurationKeyError as error:
        unknown = str(error).split("'")[1]
        names = sorted({*service.options, *_CONNECTION, *_RETRIES})
        raise SpecError(
            f"storage_options contains {unknown!r}, which is not an option of {service.scheme}:// "
            f"addresses; the options are those of obstore, such as: {', '.join(names)}"
        ) from None
    except (BaseError, ValueError) as error:
        if "Account must be specified" in str(error):
            raise SpecError(
                f"the account of the container {container!r} is not known; pass "
                "storage_options={'account_name': ...}, or an address such as "
                f"{service.example}"
            ) from None
        raise SpecError(
            f"the storage options of the {service.container} {container!r} are not valid: "
            f"{first_line(error)}. Correct the options"
        ) from None


def first_line(error: BaseException) -> str:
    """Return the message of an error of obstore without its technical details."""
    return " ".join(str(error).partition("Debug source:")[0].split())


def _profile(config: dict[str, Any]) -> str | None:
    """Remove the option ``profile`` from ``config``, and return the AWS profile to use, if any."""
    named: str | None = config.pop("profile", None)
    if named or "access_key_id" in config or "AWS_ACCESS_KEY_ID" in os.environ:
        return named
    return os.environ.get("AWS_PROFILE")


def _credentials_of(profile: str, config: dict[str, Any]) -> Any:
    """Return the credentials of an AWS profile. Add the region of the profile to ``config``."""
    try:
        from boto3 import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise EngineUnavailableError(
            f"the AWS profile {profile!r} can be read only with the package boto3, which is not "
            "installed in this Python. Install the package: pip install boto3"
        ) from error
    from botocore.exceptions import BotoCoreError

    try:
        session = Session(profile_name=profile)
        if session.region_name:
            config.setdefault("region", session.region_name)
        return Boto3CredentialProvider(session)
    except (BotoCoreError, ValueError) as error:
        raise SpecError(
            f"the AWS profile {profile!r} cannot be used: {error}. Correct the profile in "
            "~/.aws/config and ~/.aws/credentials, or pass another profile"
        ) from error


def _whole(name: str, value: Any) -> int:
    if not str(value).isdecimal():
        raise SpecError(
            f"the storage option {name!r} is {value!r}, but must be an integer of 0 or more"
        )
    return int(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(config: Mapping[str, Any]) -> Any:
    return {name: _text(value) for name, value in config.items()}
