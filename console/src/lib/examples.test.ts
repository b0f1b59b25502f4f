import { expect, test } from 'vitest';
import { command, curl } from './examples';

test('curl sends a short body in one line', () => {
  expect(curl('POST', '/webhook', { name: "Bob's" })).toBe(
    [
      'curl -X POST https://steward.test/webhook \\',
      '  -H "Authorization: Bearer $STEWARD_KEY" -H "Content-Type: application/json" \\',
      `  -d '{ "name": "Bob'\\''s" }'`,
    ].join('\n'),
  );
});

test('curl sends a long body in a line for each field', () => {
  const text = curl('PUT', '/thread', { title: 'x'.repeat(80), state: 'open' });
  expect(text.split('\n').slice(2)).toEqual([
    `  -d '{`,
    `    "title": "${'x'.repeat(80)}",`,
    `    "state": "open"`,
    `  }'`,
  ]);
});

test('the command line has three fields in a line', () => {
  expect(command('POST', '/session', { a: 1, b: 'two words', c: true, d: 'x' })).toBe(
    `steward api POST /session \\\n  -f a=1 -f 'b=two words' -f c=true \\\n  -f d=x`,
  );
});
