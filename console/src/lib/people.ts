// The members of the organization, by id, to write names where the API has ids.
import { api, ok, type Schemas } from '../api/client';
import { session } from './session.svelte';

export type Member = Schemas['AccountMember'];

// nameOf returns how a member is called: name, else email address, else id.
export function nameOf(m: Member): string {
  return [m.first_name, m.last_name].filter(Boolean).join(' ') || m.email || m.id;
}

// readPeople returns the members. It returns none for users who may not list them.
export async function readPeople(signal?: AbortSignal): Promise<Map<string, Member>> {
  if (!session.manages) return new Map();
  return new Map((await ok(api.GET('/oidc/org/members', { signal }))).map((m) => [m.id, m]));
}
