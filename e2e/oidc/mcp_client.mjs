// An MCP client with the OAuth part of the MCP SDK. It knows the URL of an API only, signs a user in, calls
// the API and refreshes its tokens. It prints one JSON object for each step. The test acts as the user: it
// visits the URL of {"visit": url} and writes the URL of the redirect to the input.
//
//   node mcp_client.mjs <URL of the API> <redirect URI> <scope>
import { createInterface } from 'node:readline';
import { auth, extractResourceMetadataUrl } from '@modelcontextprotocol/sdk/client/auth.js';

const [api, redirectURI, scope] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const print = (value) => console.log(JSON.stringify(value));

const stored = {};
const provider = {
  redirectUrl: redirectURI,
  clientMetadata: {
    client_name: 'An editor',
    redirect_uris: [redirectURI],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope,
  },
  clientInformation: () => stored.client,
  saveClientInformation: (client) => (stored.client = client),
  tokens: () => stored.tokens,
  saveTokens: (tokens) => (stored.tokens = tokens),
  redirectToAuthorization: (url) => print({ visit: url.href }),
  saveCodeVerifier: (verifier) => (stored.verifier = verifier),
  codeVerifier: () => stored.verifier,
};
const call = () => fetch(new URL('/thread', api), { headers: { Authorization: `Bearer ${stored.tokens?.access_token}` } });

const resourceMetadataUrl = extractResourceMetadataUrl(await call());
const options = { serverUrl: api, resourceMetadataUrl };
const first = await auth(provider, options);
const redirect = new URL((await lines.next()).value);
const second = await auth(provider, { ...options, authorizationCode: redirect.searchParams.get('code') });
const called = await call();
const before = stored.tokens.refresh_token;
const third = await auth(provider, options);
const again = await call();
print({
  results: [first, second, third],
  statuses: [called.status, again.status],
  rotated: stored.tokens.refresh_token !== before,
  client: stored.client,
});
process.exit(0);
