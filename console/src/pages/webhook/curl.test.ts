import { expect, test } from 'vitest';
import type { Schemas } from '../../api/client';
import { curlOf } from './curl';

type Receipt = Schemas['WebhookReceipt'];

const receipt = (fields: Partial<Receipt>) =>
  ({
    method: 'POST',
    query: '',
    headers: { 'content-type': 'application/json' },
    ...fields,
  }) as Receipt;
const encode = (text: string) => new TextEncoder().encode(text);

test('a body of text is an argument', () => {
  expect(curlOf(receipt({}), encode(`{"it's":1}`))).toBe(
    [
      'curl -X POST "$WEBHOOK_URL"',
      `-H 'content-type: application/json'`,
      `--data-raw '{"it'\\''s":1}'`,
    ].join(' \\\n  '),
  );
});

test('headers of the connection are left out, and empty ones are kept', () => {
  const headers = { host: 'a.test', 'content-length': '2', 'x-empty': '', 'x-sign': 'a b' };
  expect(curlOf(receipt({ headers }), new Uint8Array())).toBe(
    `curl -X POST "$WEBHOOK_URL" \\\n  -H 'x-empty;' \\\n  -H 'x-sign: a b'`,
  );
});

test('curl adds no content type of its own', () =>
  expect(curlOf(receipt({ headers: {} }), encode('a'))).toContain(`-H 'content-type:'`));

test('brackets in the query are not expanded', () => {
  expect(curlOf(receipt({ query: 'a[]=1&b=2' }), new Uint8Array())).toContain(
    `curl -X POST -g "$WEBHOOK_URL"'?a[]=1&b=2'`,
  );
  expect(curlOf(receipt({ query: 'a=1' }), new Uint8Array())).not.toContain('-g');
});

test('HEAD does not wait for a body', () =>
  expect(curlOf(receipt({ method: 'HEAD' }), new Uint8Array())).toContain('curl --head '));

test.each([new Uint8Array([0xff, 0xfe]), encode('a\0b'), encode('\x1b[31m')])(
  'a body that is not text is sent as base64: %o',
  (body) => {
    const got = curlOf(receipt({}), body);
    expect(got).toMatch(/^printf %s \S+ \| base64 -d \| curl /);
    const sent = atob(got.split(' ')[2] ?? '');
    expect([...sent].map((c) => c.charCodeAt(0))).toEqual([...body]);
    expect(got).toContain('--data-binary @-');
  },
);

test('a long body of text is piped, since an argument has a limit', () => {
  const got = curlOf(receipt({}), encode('x'.repeat(100 * 1024 + 1)));
  expect(got).toMatch(/^printf %s x+ \| curl /);
  expect(got).toContain('--data-binary @-');
});
