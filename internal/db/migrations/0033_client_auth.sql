-- Clients that authenticate with a key instead of a secret.

-- token_endpoint_auth_method is null for the default of the type of client: client_secret_basic if it is
-- confidential, none if it is public. jwks is a JSON Web Key Set of public keys, jwks_uri is where one is. The
-- secret_hash of a confidential client without a secret is empty.
ALTER TABLE oidc_clients ADD COLUMN token_endpoint_auth_method TEXT NULL
    CHECK (token_endpoint_auth_method IN ('client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'));
ALTER TABLE oidc_clients ADD COLUMN jwks TEXT NULL;
ALTER TABLE oidc_clients ADD COLUMN jwks_uri TEXT NULL;
