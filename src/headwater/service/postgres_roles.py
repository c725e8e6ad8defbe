"""The roles of the local PostgreSQL, as statements for its single-user mode.

The service's role owns its database and has no other rights. The superuser has no password and
can't log in: only the single-user mode, which needs the files, uses it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

ROLE = "headwater"
DATABASE = "headwater"
SUPERUSER = "postgres"

# Who can log in. Written at each start.
HBA = f"""\
# Written by `headwater up`. The superuser can't log in.
host all {ROLE} 127.0.0.1/32 scram-sha-256
"""

_ITERATIONS = 4096

# In homes of earlier versions the role is the superuser that initdb created: it can be renamed,
# by another superuser, and keeps its rights. PASSWORD NULL: it can't log in.
_ROLES = """\
DO $$ BEGIN
IF (SELECT rolname FROM pg_roles WHERE oid = 10) = '{role}' THEN
CREATE ROLE {role}_rename SUPERUSER;
SET SESSION AUTHORIZATION {role}_rename;
ALTER ROLE {role} RENAME TO {superuser};
SET SESSION AUTHORIZATION {superuser};
DROP ROLE {role}_rename;
END IF;
ALTER ROLE {superuser} PASSWORD NULL;
IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role}; END IF;
ALTER ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
PASSWORD '{verifier}';
END $$;"""

# Sequences of identity columns follow their tables.
_OWNERS = """\
DO $$ DECLARE each record; BEGIN
FOR each IN
SELECT format('ALTER TABLE %s OWNER TO {role}', oid::regclass) AS change FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
UNION ALL
SELECT format('ALTER SEQUENCE %s OWNER TO {role}', oid::regclass) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'S' AND NOT EXISTS
(SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype IN ('a', 'i'))
UNION ALL
SELECT format('ALTER ROUTINE %s OWNER TO {role}', oid::regprocedure) FROM pg_proc
WHERE pronamespace = 'public'::regnamespace
LOOP EXECUTE each.change; END LOOP;
END $$;"""


def new_database(password: str) -> str:
    """Statements for a new cluster, in its database `postgres`."""
    return _lines(_roles(password), f"CREATE DATABASE {DATABASE} OWNER {ROLE};")


def existing_database(password: str) -> str:
    """Statements for the cluster of an earlier version, in its database `headwater`.

    One transaction: a migration that is killed has changed nothing.
    """
    return _lines(
        "BEGIN;",
        _roles(password),
        _OWNERS.format(role=ROLE),
        f"ALTER DATABASE {DATABASE} OWNER TO {ROLE};",
        "COMMIT;",
    )


def _roles(password: str) -> str:
    return _ROLES.format(role=ROLE, superuser=SUPERUSER, verifier=_verifier(password))


def _lines(*statements: str) -> str:
    # In single-user mode the end of a line ends the statement.
    return "".join(f"{' '.join(each.splitlines())}\n" for each in statements)


def _verifier(password: str) -> str:
    """What PostgreSQL stores for SCRAM-SHA-256: an error message can't contain the password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    stored = hashlib.sha256(client).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = (base64.b64encode(each).decode() for each in (salt, stored, server))
    return "SCRAM-SHA-256${iterations}:{}${}:{}".format(*parts, iterations=_ITERATIONS)
