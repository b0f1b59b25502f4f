// Entries of the audit log in words.
import type { Schemas } from '../api/client';
import { pages } from './pages';

export type Entry = Schemas['AuditEntry'];

// kinds are what an action was done to, by the part of the action before the dot, with what can be
// done to it.
export const kinds: Record<string, { label: string; verbs: Record<string, string> }> = {
  apikey: {
    label: 'API key',
    verbs: { create: 'created', delete: 'deleted', root: 'made for the root' },
  },
  bucket: {
    label: 'Bucket',
    verbs: {
      create: 'created',
      delete: 'deleted',
      configure: 'configured',
      reset: 'configuration reset',
      rotate: 'credentials replaced',
    },
  },
  client: {
    label: 'OAuth app',
    verbs: {
      create: 'created',
      update: 'changed',
      delete: 'deleted',
      rotate_secret: 'secret replaced',
      revoke_user: 'access of a user revoked',
      revoke_all: 'access of all users revoked',
      register: 'registered by itself',
      expire: 'deleted after 7 days without use',
    },
  },
  consent: { label: 'Consent', verbs: { grant: 'granted', revoke: 'revoked' } },
  database: {
    label: 'Database',
    verbs: {
      create: 'created',
      delete: 'deleted',
      rotate: 'credentials replaced',
      move: 'moved to another engine',
    },
  },
  eval: { label: 'Evaluation', verbs: { put: 'recorded', sync: 'synchronized' } },
  keys: { label: 'Signing keys', verbs: { rotate: 'rotated' } },
  kv: {
    label: 'Key-value store',
    verbs: {
      create: 'created',
      delete: 'deleted',
      rotate: 'credentials replaced',
      move: 'moved to another engine',
      set: 'value changed',
      expire: 'expiry of a key changed',
      unset: 'key deleted',
    },
  },
  member: {
    label: 'Member',
    verbs: {
      create: 'invited',
      invite: 'invited again',
      update: 'changed',
      disable: 'disabled',
      enable: 'enabled',
      delete: 'removed',
      reset_password: 'reset link created',
      clear_factors: 'second factors removed',
      accept: 'joined',
      decline: 'declined',
      revoke: 'invitation revoked',
      join: 'joined with a sign-in provider',
    },
  },
  object: { label: 'Objects', verbs: { delete: 'deleted' } },
  organization: {
    label: 'Organization',
    verbs: { create: 'created', update: 'changed', delete: 'deleted', restore: 'restored' },
  },
  project: { label: 'Project', verbs: { create: 'created', delete: 'deleted' } },
  registration_token: {
    label: 'Registration token',
    verbs: { create: 'created', delete: 'deleted' },
  },
  thread: { label: 'Thread', verbs: { create: 'created', update: 'changed', delete: 'deleted' } },
  alert: {
    label: 'Alert',
    verbs: { create: 'created', update: 'changed', delete: 'deleted', test: 'tested' },
  },
  upstream: {
    label: 'Sign-in provider',
    verbs: { create: 'added', update: 'changed', delete: 'deleted' },
  },
  user: {
    label: 'Account',
    verbs: {
      setup: 'set up',
      claim: 'taken over by the owner of its address',
      link: 'linked to a sign-in provider',
      unlink: 'unlinked from a sign-in provider',
      sign_in: 'signed in',
      sign_in_failed: 'sign-in failed',
      password: 'password set',
      password_remove: 'password removed',
      passkey: 'passkey created',
      passkey_rename: 'passkey renamed',
      passkey_remove: 'passkey removed',
      passkey_copy: 'copied passkey refused',
      update: 'profile changed',
      factor_add: 'authenticator app added',
      factor_remove: 'authenticator app removed',
      recovery_codes: 'recovery codes replaced',
      email: 'email address changed',
    },
  },
  webhook: {
    label: 'Webhook',
    verbs: {
      create: 'created',
      update: 'changed',
      delete: 'deleted',
      'rotate-url': 'URL replaced',
      'destination-create': 'destination added',
      'destination-update': 'destination changed',
      'destination-delete': 'destination deleted',
      'destination-recover': 'waiting deliveries retried',
      'destination-rotate-secret': 'signing secret replaced',
      'delivery-retry': 'delivery retried',
      replay: 'receipts replayed',
      'replay-cancel': 'replay cancelled',
    },
  },
};

export const kindOf = (action: string) => action.split('.')[0] ?? '';
const verbOf = (action: string) => action.slice(kindOf(action).length + 1);

// words returns an action as people say it, such as "Webhook created".
export function words(action: string): string {
  const kind = kinds[kindOf(action)];
  const verb = kind?.verbs[verbOf(action)];
  return verb ? `${kind.label} ${verb}` : action;
}

// tone is how the mark of an action is colored.
export const tone = (action: string) =>
  /delete|revoke|disable|decline|failed/.test(verbOf(action))
    ? 'bad'
    : /^(create|accept|grant|sign_in|invite|enable|destination-create)$/.test(verbOf(action))
      ? 'good'
      : 'warn';

// types are those of GET /search, where they differ.
const types: Record<string, string> = {
  client: 'oauth_client',
  consent: 'oauth_client',
  apikey: 'api_key',
  user: 'member',
  kv: 'store',
  object: 'bucket',
};

// pageOf returns the page of what was changed, unless it is gone. An entry about a part of a thing,
// such as client/user or bucket/key, leads to the page of the thing.
export function pageOf(e: Entry): string | undefined {
  const kind = kindOf(e.action);
  if (kind === 'keys') return '/settings';
  if (verbOf(e.action) === 'delete' && kind !== 'object') return undefined;
  if (kind === 'webhook' && !e.target.startsWith('wh_')) return undefined;
  return pages[types[kind] ?? kind]?.(e.target.split('/')[0] ?? '');
}

// partsOf returns what was changed, in parts if the entry names several: an app and its user, a
// bucket and a key of it, or the beginning of keys.
export function partsOf(e: Entry): { label: string; id: string }[] {
  const kind = kindOf(e.action);
  const slash = e.target.indexOf('/');
  const [first, rest] =
    slash < 0 ? [e.target, ''] : [e.target.slice(0, slash), e.target.slice(slash + 1)];
  if (kind === 'object' && rest.endsWith('*'))
    return [
      { label: 'Bucket', id: first },
      { label: 'Keys that begin with', id: rest.slice(0, -1) },
    ];
  if (kind === 'object')
    return [
      { label: 'Bucket', id: first },
      { label: 'Key', id: rest },
    ];
  if (kind === 'kv' && rest)
    return [
      { label: 'Key-value store', id: first },
      { label: 'Key', id: rest },
    ];
  if (kind === 'client' && rest)
    return [
      { label: 'OAuth app', id: first },
      { label: 'User', id: rest },
    ];
  return [
    { label: kind === 'consent' ? 'OAuth app' : (kinds[kind]?.label ?? 'Changed'), id: e.target },
  ];
}
