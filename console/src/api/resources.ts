// Buckets, databases and key-value stores: what their pages have in common.
import { api, ok, type Schemas } from './client';
import { session } from '../lib/session.svelte';

export type Kind = 's3' | 'db' | 'kv';
export type Bucket = Schemas['ResourcePlacedS3'];
export type Database = Schemas['ResourcePlacedDB'];
export type Store = Schemas['ResourcePlacedKV'];
export type Created = Schemas['ResourceCreated']['created'][number];

// words are what a resource of a kind is called.
export const words = {
  s3: { one: 'bucket', path: '/storage', cli: 'bucket' },
  db: { one: 'database', path: '/databases', cli: 'db' },
  kv: { one: 'store', path: '/key-value', cli: 'kv' },
} as const;

// readAll returns the resources of a kind in all regions, by name.
export async function readAll<K extends Kind>(
  kind: K,
  signal?: AbortSignal,
): Promise<Schemas['ResourcePlaced'][K]> {
  const placed = await ok(api.GET('/resource', { params: { query: { type: kind } }, signal }));
  return placed[kind];
}

// readOne returns the resource of a kind with a name in a region, or undefined.
export async function readOne<K extends Kind>(
  kind: K,
  region: string,
  name: string,
  signal?: AbortSignal,
): Promise<Schemas['ResourcePlaced'][K][number] | undefined> {
  const placed = await ok(
    api.GET('/resource', { params: { query: { type: kind, name } }, signal }),
  );
  return placed[kind].find((r) => nameOf(r) === name && (!region || r.cloud_region === region));
}

export const nameOf = (r: Bucket | Database | Store) =>
  'bucket_name' in r ? r.bucket_name : r.name;

export const at = (region: string) => ({ orgId: session.orgId, region });

export async function create(
  kind: Kind,
  region: string,
  name: string,
  description: string,
): Promise<Created> {
  const resource = {
    type: kind,
    ...(name ? { name } : {}),
    ...(description ? { description } : {}),
  };
  const { created } = await ok(
    api.POST('/resource/{orgId}/{region}', {
      params: { path: at(region) },
      body: { resources: [resource] },
    }),
  );
  return created[0]!;
}

export const remove = (kind: Kind, region: string, name: string) =>
  ok(
    api.DELETE('/resource/{orgId}/{region}', {
      params: { path: at(region) },
      body: { resources: [{ type: kind, name }] },
    }),
  );

export const rotate = (kind: Kind, region: string, name: string) =>
  ok(
    api.POST('/resource/{orgId}/{region}/{name}/rotate', {
      params: { path: { ...at(region), name }, query: { type: kind } },
    }),
  );
