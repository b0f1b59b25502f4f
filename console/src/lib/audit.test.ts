import { describe, expect, test } from 'vitest';
import { type Entry, pageOf, partsOf, tone, words } from './audit';

const entry = (action: string, target: string) => ({ action, target }) as Entry;

test.each([
  ['webhook.create', 'Webhook created'],
  ['webhook.destination-recover', 'Webhook waiting deliveries retried'],
  ['client.rotate_secret', 'OAuth app secret replaced'],
  ['user.sign_in_failed', 'Account sign-in failed'],
])('%s is written "%s"', (action, want) => expect(words(action)).toBe(want));

test.each(['webhook.explode', 'rocket.create', 'webhook', ''])(
  'an action without words is shown as it is: %j',
  (action) => {
    expect(words(action)).toBe(action);
  },
);

test.each([
  ['webhook.create', 'good'],
  ['webhook.destination-create', 'good'],
  ['user.sign_in', 'good'],
  ['user.sign_in_failed', 'bad'],
  ['webhook.destination-delete', 'bad'],
  ['client.revoke_all', 'bad'],
  ['member.disable', 'bad'],
  ['webhook.update', 'warn'],
  ['keys.rotate', 'warn'],
])('%s is marked %s', (action, want) => expect(tone(action)).toBe(want));

describe('pageOf', () => {
  test.each([
    ['webhook.update', 'wh_1', '/webhooks/wh_1'],
    ['client.revoke_user', 'oac_1/usr_1', '/oauth/clients/oac_1'],
    ['consent.grant', 'oac_1', '/oauth/clients/oac_1'],
    ['bucket.configure', 'my bucket', '/storage/my%20bucket'],
    ['object.delete', 'photos/a/b.png', '/storage/photos'],
    ['kv.create', 'cache', '/key-value'],
    ['user.sign_in', 'usr_1', '/members?find=usr_1'],
    ['keys.rotate', 'key', '/settings'],
  ])('%s of %s leads to the page of the thing', (action, target, want) =>
    expect(pageOf(entry(action, target))).toBe(want),
  );

  test.each([
    ['webhook.delete', 'wh_1'],
    ['webhook.destination-update', 'whds_1'],
    ['organization.create', 'org_1'],
  ])('%s of %s leads nowhere', (action, target) =>
    expect(pageOf(entry(action, target))).toBeUndefined(),
  );
});

test.each([
  [
    'object.delete',
    'photos/2026/*',
    [
      ['Bucket', 'photos'],
      ['Keys that begin with', '2026/'],
    ],
  ],
  [
    'object.delete',
    'photos/a/b.png',
    [
      ['Bucket', 'photos'],
      ['Key', 'a/b.png'],
    ],
  ],
  [
    'client.revoke_user',
    'oac_1/usr_1',
    [
      ['OAuth app', 'oac_1'],
      ['User', 'usr_1'],
    ],
  ],
  ['consent.grant', 'oac_1', [['OAuth app', 'oac_1']]],
  ['webhook.create', 'wh_1', [['Webhook', 'wh_1']]],
  ['rocket.create', 'r/1', [['Changed', 'r/1']]],
])('%s of %s names its parts', (action, target, want) => {
  expect(partsOf(entry(action, target)).map((p) => [p.label, p.id])).toEqual(want);
});
