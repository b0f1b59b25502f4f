import { describe, expect, test } from 'vitest';
import { type Client, grantLabel, issuerOf, snippets, tryUrl } from './oauth';

const client = (fields: Partial<Client>) =>
  ({
    id: 'oac_1',
    link: 'https://id.test/console/oauth/clients/oac_1',
    client_type: 'confidential',
    grant_types: ['authorization_code', 'refresh_token'],
    redirect_uris: ['https://app.test/callback'],
    scopes: ['openid', 'webhook:read'],
    ...fields,
  }) as Client;

test('a grant without a label is shown by its name', () => {
  expect(grantLabel('client_credentials')).toBe('As itself');
  expect(grantLabel('password')).toBe('password');
});

test('the issuer is the address of the server of the link', () =>
  expect(issuerOf(client({}))).toBe('https://id.test'));

test('an app is tried with its first redirect URI, its scopes and PKCE', () => {
  const query = new URL(tryUrl(client({})) ?? '', 'https://id.test').searchParams;
  expect(query.get('redirect_uri')).toBe('https://app.test/callback');
  expect(query.get('scope')).toBe('openid webhook:read');
  expect(query.get('code_challenge')).toMatch(/^[\w-]{43}$/);
});

test('an app without a redirect cannot be tried', () => {
  expect(tryUrl(client({ redirect_uris: [] }))).toBeUndefined();
  expect(tryUrl(client({ grant_types: ['client_credentials'] }))).toBeUndefined();
});

describe('snippets', () => {
  const names = (c: Client) => snippets(c).map((s) => s.name);
  const text = (c: Client, name: string) => snippets(c).find((s) => s.name === name)?.text ?? '';
  const device = 'urn:ietf:params:oauth:grant-type:device_code';

  test('are those of the grants of the app', () => {
    expect(names(client({}))).toEqual(['node', 'nextjs', 'python', 'go', 'env']);
    expect(names(client({ client_type: 'public' }))).toEqual(['browser', 'react', 'env']);
    expect(names(client({ grant_types: ['client_credentials'] }))).toEqual(['service', 'env']);
    expect(names(client({ grant_types: [device] }))).toEqual(['device', 'env']);
  });

  test('of public apps name no secret', () => {
    for (const s of snippets(
      client({ client_type: 'public', grant_types: ['authorization_code', device] }),
    ))
      expect(s.text).not.toMatch(/secret/i);
  });

  test('of apps with keys name no secret', () => {
    const keyed = client({
      token_endpoint_auth_method: 'private_key_jwt',
      grant_types: ['authorization_code', 'client_credentials', device],
      link: 'http://localhost:8080/console/oauth/clients/oac_1',
    });
    expect(names(keyed)).toEqual(['node', 'env']);
    for (const s of snippets(keyed)) expect(s.text).not.toMatch(/secret/i);
    expect(text(keyed, 'node')).toContain(
      'undefined,\n  oidc.PrivateKeyJwt(privateKey), // a CryptoKey\n  { execute:',
    );
  });

  test('allow plain http only where the issuer has it', () => {
    expect(text(client({}), 'node')).not.toContain('allowInsecureRequests');
    expect(
      text(client({ link: 'http://localhost:8080/console/oauth/clients/oac_1' }), 'node'),
    ).toContain('allowInsecureRequests');
  });

  test('of a service ask for scopes of the API alone', () => {
    expect(text(client({ grant_types: ['client_credentials'] }), 'service')).toContain(
      '--data-urlencode scope=webhook:read',
    );
  });
});
