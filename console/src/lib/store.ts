// Values of key-value stores: how they are shown, and what is sent to change them.
import type { Schemas } from '../api/client';
import { bytes, plural } from './format';

export type Key = Schemas['ResourceKey'];
export type Value = Schemas['ResourceValue'];
export type Item = Schemas['ResourceItem'];
export type NewValue = Schemas['ResourceNewValue'];
export type Type = 'string' | 'hash' | 'list' | 'set' | 'zset' | 'stream';

// types are those of values, with what an item of one is called.
export const types: Record<Type, { label: string; one: string; many?: string }> = {
  string: { label: 'String', one: 'byte' },
  hash: { label: 'Hash', one: 'field' },
  list: { label: 'List', one: 'element' },
  set: { label: 'Set', one: 'member' },
  zset: { label: 'Sorted set', one: 'member' },
  stream: { label: 'Stream', one: 'entry', many: 'entries' },
};

export const isType = (type: string): type is Type => type in types;

export const isText = (value: unknown): value is string => typeof value === 'string';

// textOf returns a text of a store, or its bytes in base64 if they are not text.
export const textOf = (value: unknown): string =>
  isText(value) ? value : ((value as { base64?: string } | undefined)?.base64 ?? '');

// shown returns a text for a cell of a table.
export const shown = (value: unknown): string =>
  isText(value) ? value || '(empty)' : `base64: ${textOf(value)}`;

// sizeOf returns how large a value is.
export function sizeOf(v: { type: string; size?: number }): string {
  if (v.size === undefined) return '';
  if (v.type === 'string') return bytes(v.size);
  const { one, many } = isType(v.type) ? types[v.type] : { one: 'element', many: undefined };
  return plural(v.size, one, many);
}

type Named = { key: string; encoding?: 'base64' };

// named returns the parameters that name a key.
export const named = (k: Pick<Key, 'key' | 'key_base64'>): Named =>
  k.key_base64 ? { key: k.key_base64, encoding: 'base64' } : { key: k.key };

// itemName returns the text that names an item in a request to delete it.
export const itemName = (item: Item): unknown =>
  item.field ?? item.member ?? item.id ?? String(item.index);

// namedItem returns the parameters that name an item of a value.
export function namedItem(
  k: Pick<Key, 'key' | 'key_base64'>,
  item: Item,
): Named & { item: string } {
  const name = itemName(item);
  if (!k.key_base64 && isText(name) && !name.includes('\0')) return { key: k.key, item: name };
  return {
    key: k.key_base64 ?? base64(k.key),
    item: isText(name) ? base64(name) : textOf(name),
    encoding: 'base64',
  };
}

const base64 = (text: string) =>
  btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join(''));

const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

// milliseconds returns the duration of a text such as 90s, 15m, 12h or 30d, or undefined if it is none.
export function milliseconds(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim());
  const ms = match ? Math.round(Number(match[1]) * units[match[2]!]!) : 0;
  return ms >= 1 ? ms : undefined;
}

// fieldsOf returns the fields of an entry of a stream that are written as lines name=value.
export const fieldsOf = (text: string): NonNullable<Item['fields']> =>
  text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [field, ...rest] = line.split('=');
      return { field: field!.trim(), value: rest.join('=') };
    });

// readCommand is the command with which a Redis client reads a value.
export function readCommand(type: string, quotedKey: string): string {
  const [command, rest] = {
    hash: ['HGETALL', ''],
    list: ['LRANGE', ' 0 99'],
    set: ['SSCAN', ' 0'],
    zset: ['ZRANGE', ' 0 99 WITHSCORES'],
    stream: ['XRANGE', ' - + COUNT 100'],
  }[type] ?? ['GET', ''];
  return `${command} ${quotedKey}${rest}`;
}

// tree returns the value of a text that is an object or array of JSON.
export function tree(value: unknown): object | undefined {
  try {
    const parsed: unknown = isText(value) ? JSON.parse(value) : undefined;
    return parsed && typeof parsed === 'object' ? parsed : undefined;
  } catch {
    return undefined;
  }
}
