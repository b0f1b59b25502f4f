// A relying party on openid-client. It is told what to do by its arguments and prints one JSON object for each step; the test plays the
// user: it reads {"go": address} from the output and writes the address to which the user was sent back to the input.
//
//   node party.mjs <issuer> <client id> <client secret or ""> <redirect address> <what>
//
// what is one of: code, par, dpop, device, machine.
import { createInterface } from 'node:readline';
import * as client from 'openid-client';

const [issuer, id, secret, redirectURI, what] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => console.log(JSON.stringify(value));
const hear = async () => new URL((await lines.next()).value);

const authentication = secret ? client.ClientSecretBasic(secret) : client.None();
const config = await client.discovery(new URL(issuer), id, undefined, authentication, {
  execute: [client.allowInsecureRequests],
  timeout: 300, // seconds, for every request
});

async function byCode({ pushed, DPoP } = {}) {
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
  const address = pushed
    ? await client.buildAuthorizationUrlWithPAR(config, parameters, { DPoP })
    : client.buildAuthorizationUrl(config, parameters);
  say({ go: address.href });
  return client.authorizationCodeGrant(
    config, await hear(), { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce }, undefined, { DPoP },
  );
}

async function byDevice() {
  const response = await client.initiateDeviceAuthorization(config, { scope: 'openid email' });
  say({ go: response.verification_uri_complete, code: response.user_code });
  return client.pollDeviceAuthorizationGrant(config, response);
}

// use does with tokens what a relying party does.
async function use(tokens, DPoP) {
  const sub = tokens.claims().sub;
  const info = await client.fetchUserInfo(config, tokens.access_token, sub, { DPoP });
  const fresh = await client.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP });
  const step = { sub, email: info.email, type: fresh.token_type, turned: fresh.refresh_token !== tokens.refresh_token };
  if (secret) {
    step.active = (await client.tokenIntrospection(config, fresh.access_token)).active;
    await client.tokenRevocation(config, fresh.refresh_token);
    step.after = (await client.tokenIntrospection(config, fresh.access_token)).active;
  }
  step.logout = client.buildEndSessionUrl(config, { id_token_hint: tokens.id_token }).href;
  say(step);
}

if (what === 'machine') {
  const tokens = await client.clientCredentialsGrant(config, { scope: 'webhook:read' });
  say({ type: tokens.token_type, scope: tokens.scope, token: tokens.access_token });
} else if (what === 'device') {
  await use(await byDevice());
} else {
  const DPoP = what === 'dpop' ? client.getDPoPHandle(config, await client.randomDPoPKeyPair()) : undefined;
  await use(await byCode({ pushed: what === 'par', DPoP }), DPoP);
}
process.exit(0);
