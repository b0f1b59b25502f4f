// What the pages of OAuth apps know about OAuth: kinds of apps and examples.
import type { Schemas } from '../api/client';
import type { Check } from './check.svelte';
import { shellQuote } from './format';

const device = 'urn:ietf:params:oauth:grant-type:device_code';
export const tokenExchange = 'urn:ietf:params:oauth:grant-type:token-exchange';

export interface Kind {
  name: string;
  label: string;
  text: string;
  type: 'confidential' | 'public';
  grants: string[];
  // redirects says that users come back to the app by a redirect.
  redirects: boolean;
}

export const kinds: Kind[] = [
  {
    name: 'web',
    label: 'Web application',
    text: 'Runs on a server, which can keep a secret',
    type: 'confidential',
    grants: ['authorization_code', 'refresh_token'],
    redirects: true,
  },
  {
    name: 'spa',
    label: 'Single-page, mobile or desktop app',
    text: 'Runs on devices of its users: no secret, PKCE instead',
    type: 'public',
    grants: ['authorization_code', 'refresh_token'],
    redirects: true,
  },
  {
    name: 'service',
    label: 'Service',
    text: 'Calls the API as itself, without a user',
    type: 'confidential',
    grants: ['client_credentials'],
    redirects: false,
  },
  {
    name: 'device',
    label: 'Command line or device',
    text: 'Shows a code, which the user enters in a browser elsewhere',
    type: 'public',
    grants: [device, 'refresh_token'],
    redirects: false,
  },
];

const grantLabels: Record<string, string> = {
  authorization_code: 'Sign-in by redirect',
  refresh_token: 'Refresh tokens',
  client_credentials: 'As itself',
  [device]: 'Device code',
  [tokenExchange]: 'Token exchange',
};
export const grantLabel = (grant: string) => grantLabels[grant] ?? grant;

// filled returns the addresses of a list that are not blank, without repetitions, as the server
// takes them.
export const filled = (uris: string[]) => [...new Set(uris.map((u) => u.trim()).filter(Boolean))];

// Addresses are the fields of an app with lists of addresses.
export interface Addresses {
  redirect_uris?: string[];
  post_logout_redirect_uris?: string[];
}

// verdict returns what the server says about an address of a list: "" if it can be used, or
// undefined if it was not checked yet.
export function verdict(
  check: Check<Addresses>,
  list: keyof Addresses,
  uri: string,
): string | undefined {
  const at = check.checked?.[list]?.indexOf(uri.trim()) ?? -1;
  return at < 0 ? undefined : check.field(`${list}[${at}]`);
}

// Client is what the examples are made from.
export type Client = Schemas['OidcClientDetails'];

// hasKeys reports whether an app authenticates with keys, and so has no secret.
export const hasKeys = (c: Client) => c.token_endpoint_auth_method === 'private_key_jwt';

// issuerOf returns the address of the provider.
export const issuerOf = (c: Client) => c.link.replace(/\/console\/oauth\/.*$/, '');

// tryUrl returns where sign-in with the app starts, as the app itself would start it. The app
// cannot redeem the code, since it did not ask for it.
export function tryUrl(c: Client): string | undefined {
  const redirect = c.redirect_uris[0];
  if (!redirect || !c.grant_types.includes('authorization_code')) return undefined;
  const bytes = crypto.getRandomValues(new Uint8Array(43));
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const challenge = [...bytes].map((b) => alphabet[b % 64]).join('');
  const query = {
    response_type: 'code',
    client_id: c.id,
    redirect_uri: redirect,
    scope: c.scopes.join(' '),
    state: 'console',
    code_challenge: challenge,
    code_challenge_method: 'S256',
  };
  return '/authorize?' + new URLSearchParams(query);
}

// snippets returns examples for common stacks, with the values of the app.
export function snippets(c: Client): { name: string; label: string; text: string }[] {
  const q = JSON.stringify;
  const issuer = issuerOf(c);
  const confidential = c.client_type === 'confidential';
  const redirect = c.redirect_uris[0] ?? 'https://app.example.com/callback';
  const scope = c.scopes.join(' ');
  const keys = hasKeys(c);
  const insecure = issuer.startsWith('http:')
    ? `${keys ? '' : '\n  undefined,'}\n  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`
    : '';
  const authentication = keys
    ? 'undefined,\n  oidc.PrivateKeyJwt(privateKey), // a CryptoKey'
    : 'process.env.STEWARD_CLIENT_SECRET,';
  const all: { name: string; label: string; text: string }[] = [];
  const add = (name: string, label: string, text: string) =>
    all.push({ name, label, text: text.trim() });

  if (c.grant_types.includes('authorization_code') && confidential) {
    add(
      'node',
      'Node.js',
      `
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${q(issuer)}),
  ${q(c.id)},
  ${authentication}${insecure}
);

// Send the user to this address. Keep verifier and state in the session.
const verifier = oidc.randomPKCECodeVerifier();
const state = oidc.randomState();
const address = oidc.buildAuthorizationUrl(config, {
  redirect_uri: ${q(redirect)},
  scope: ${q(scope)},
  state,
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
});

// When the user comes back:
const tokens = await oidc.authorizationCodeGrant(config, new URL(request.url), {
  pkceCodeVerifier: verifier,
  expectedState: state,
});
console.log(tokens.claims());`,
    );
    add(
      'nextjs',
      'Next.js',
      `
// npm install next-auth@beta
// Its redirect URI is https://<your host>/api/auth/callback/steward
import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [
    {
      id: "steward",
      name: "Steward",
      type: "oidc",
      issuer: ${q(issuer)},
      clientId: ${q(c.id)},
      clientSecret: process.env.STEWARD_CLIENT_SECRET,
      authorization: { params: { scope: ${q(scope)} } },
    },
  ],
});`,
    );
    add(
      'python',
      'Python',
      `
# pip install authlib flask requests
import os
from authlib.integrations.flask_client import OAuth
from flask import Flask, session

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
steward = OAuth(app).register(
    "steward",
    client_id=${q(c.id)},
    client_secret=os.environ["STEWARD_CLIENT_SECRET"],
    server_metadata_url=${q(issuer + '/.well-known/openid-configuration')},
    client_kwargs={"scope": ${q(scope)}, "code_challenge_method": "S256"},
)

@app.get("/login")
def login():
    return steward.authorize_redirect(${q(redirect)})

@app.get("/callback")
def callback():
    session["user"] = steward.authorize_access_token()["userinfo"]
    return session["user"]`,
    );
    add(
      'go',
      'Go',
      `
// go get github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2
provider, err := oidc.NewProvider(ctx, ${q(issuer)})
if err != nil {
	return err
}
config := oauth2.Config{
	ClientID:     ${q(c.id)},
	ClientSecret: os.Getenv("STEWARD_CLIENT_SECRET"),
	Endpoint:     provider.Endpoint(),
	RedirectURL:  ${q(redirect)},
	Scopes:       []string{${c.scopes.map((s) => q(s)).join(', ')}},
}

// Send the user to this address. Keep verifier and state in the session.
verifier := oauth2.GenerateVerifier()
address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))

// When the user comes back:
token, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier))`,
    );
  }
  if (c.grant_types.includes('authorization_code') && !confidential) {
    add(
      'browser',
      'Browser',
      `
// npm install oidc-client-ts
import { UserManager } from "oidc-client-ts";

const users = new UserManager({
  authority: ${q(issuer)},
  client_id: ${q(c.id)},
  redirect_uri: ${q(redirect)},
  scope: ${q(scope)},
});

// The button "Sign in":
await users.signinRedirect();

// On the page of the redirect URI:
const user = await users.signinCallback();
console.log(user.profile);`,
    );
    add(
      'react',
      'React',
      `
// npm install react-oidc-context oidc-client-ts
import { AuthProvider, useAuth } from "react-oidc-context";

const settings = {
  authority: ${q(issuer)},
  client_id: ${q(c.id)},
  redirect_uri: ${q(redirect)},
  scope: ${q(scope)},
};

export const App = () => <AuthProvider {...settings}><SignIn /></AuthProvider>;

function SignIn() {
  const auth = useAuth();
  if (auth.isAuthenticated) return <p>Hello {auth.user?.profile.name}</p>;
  return <button onClick={() => auth.signinRedirect()}>Sign in</button>;
}`,
    );
  }
  if (c.grant_types.includes('client_credentials')) {
    add(
      'service',
      'As itself (curl)',
      `
curl ${shellQuote(issuer + '/oauth/token')} \\
  -u ${shellQuote(c.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${shellQuote('scope=' + c.scopes.filter((s) => s.includes(':')).join(' '))}`,
    );
  }
  if (c.grant_types.includes(device)) {
    add(
      'device',
      'Device code (curl)',
      `
# Show user_code and verification_uri of the answer to the user.
curl ${shellQuote(issuer + '/device_authorization')} \\
  -d client_id=${shellQuote(c.id)}${confidential ? ' -d client_secret="$STEWARD_CLIENT_SECRET"' : ''} \\
  --data-urlencode ${shellQuote('scope=' + scope)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${shellQuote(issuer + '/oauth/token')} \\
  -d client_id=${shellQuote(c.id)}${confidential ? ' -d client_secret="$STEWARD_CLIENT_SECRET"' : ''} \\
  -d grant_type=${device} \\
  -d device_code="$DEVICE_CODE"`,
    );
  }
  if (c.grant_types.includes(tokenExchange)) {
    add(
      'exchange',
      'Token exchange (curl)',
      `
# ACCESS_TOKEN was issued to this app or for its audience.
curl ${shellQuote(issuer + '/oauth/token')} \\
  -u ${shellQuote(c.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=${tokenExchange} \\
  -d subject_token="$ACCESS_TOKEN" \\
  -d subject_token_type=urn:ietf:params:oauth:token-type:access_token`,
    );
  }
  const env = {
    OIDC_ISSUER: issuer,
    OIDC_CLIENT_ID: c.id,
    ...(confidential && !keys ? { OIDC_CLIENT_SECRET: '<the secret>' } : {}),
    OIDC_REDIRECT_URI: redirect,
    OIDC_SCOPES: scope,
  };
  add(
    'env',
    'Environment',
    Object.entries(env)
      .map(([name, value]) => `${name}=${q(value)}`)
      .join('\n'),
  );
  // An app with keys has no secret to send.
  return keys ? all.filter((s) => !s.text.includes('STEWARD_CLIENT_SECRET')) : all;
}
