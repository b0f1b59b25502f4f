// A relying party with openid-client. It runs one flow and prints one JSON object for each step. The test
// acts as the user: it visits the URL of {"visit": url} and writes the URL of the redirect to the input.
//
//   node relying_party.mjs <issuer> <client id> <client secret or ""> <redirect URI> <flow>
//
// The secret may also be a private key, as a JSON Web Key on P-256: then the client signs assertions with it.
// flow is one of: code, par, dpop, device, client_credentials.
import { createInterface } from 'node:readline';
import * as client from 'openid-client';

const [issuer, id, secret, redirectURI, flow] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const print = (value) => console.log(JSON.stringify(value));
const readURL = async () => new URL((await lines.next()).value);

async function authenticationOf(secret) {
  if (!secret) return client.None();
  if (!secret.startsWith('{')) return client.ClientSecretBasic(secret);
  const jwk = JSON.parse(secret);
  const key = await crypto.subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: jwk.crv }, false, ['sign']);
  return client.PrivateKeyJwt({ key, kid: jwk.kid });
}

const authentication = await authenticationOf(secret);
const config = await client.discovery(new URL(issuer), id, undefined, authentication, {
  execute: [client.allowInsecureRequests],
  timeout: 300, // seconds, for every request
});

async function codeFlow({ pushed, DPoP } = {}) {
  const verifier = client.randomPKCECodeVerifier();
  const state = client.randomState();
  const nonce = client.randomNonce();
  const parameters = {
    redirect_uri: redirectURI,
    scope: 'openid email offline_access',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  };
  const url = pushed
    ? await client.buildAuthorizationUrlWithPAR(config, parameters, { DPoP })
    : client.buildAuthorizationUrl(config, parameters);
  print({ visit: url.href });
  return client.authorizationCodeGrant(
    config, await readURL(), { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce }, undefined, { DPoP },
  );
}

async function deviceFlow() {
  const response = await client.initiateDeviceAuthorization(config, { scope: 'openid email' });
  print({ visit: response.verification_uri_complete, code: response.user_code });
  return client.pollDeviceAuthorizationGrant(config, response);
}

// useTokens requests userinfo, refreshes, and, with a secret or key, introspects and revokes.
async function useTokens(tokens, DPoP) {
  const sub = tokens.claims().sub;
  const info = await client.fetchUserInfo(config, tokens.access_token, sub, { DPoP });
  const fresh = await client.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP });
  const step = {
    sub, email: info.email, type: fresh.token_type, rotated: fresh.refresh_token !== tokens.refresh_token,
  };
  if (secret) {
    step.active = (await client.tokenIntrospection(config, fresh.access_token)).active;
    await client.tokenRevocation(config, fresh.refresh_token);
    step.activeAfterRevocation = (await client.tokenIntrospection(config, fresh.access_token)).active;
  }
  step.logout = client.buildEndSessionUrl(config, { id_token_hint: tokens.id_token }).href;
  print(step);
}

if (flow === 'client_credentials') {
  const tokens = await client.clientCredentialsGrant(config, { scope: 'webhook:read' });
  print({ type: tokens.token_type, scope: tokens.scope, token: tokens.access_token });
} else if (flow === 'device') {
  await useTokens(await deviceFlow());
} else {
  const DPoP = flow === 'dpop' ? client.getDPoPHandle(config, await client.randomDPoPKeyPair()) : undefined;
  await useTokens(await codeFlow({ pushed: flow === 'par', DPoP }), DPoP);
}
process.exit(0);
