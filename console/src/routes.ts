// The pages of the console. A page is loaded when it is opened first. Values of the pattern are in
// router.params. Pages with nav are in the navigation, in this order. A page with needs is only for
// roles that have that right, as GET /cli/auth/user tells the role: others do not find it in the
// navigation or the search.
import type { Component } from 'svelte';
import type { Schemas } from './api/client';
import { readOne, words } from './api/resources';
import { pages } from './lib/pages';
import { session } from './lib/session.svelte';
import type { IconName } from './ui/Icon.svelte';

export interface Route {
  pattern: string;
  load: () => Promise<{ default: Component }>;
  nav?: { label: string; icon: IconName; group: Group };
  needs?: 'manages' | 'writes';
}

export const groups = ['', 'Build', 'Access', 'Organization'] as const;
export type Group = (typeof groups)[number];

export const routes: Route[] = [
  {
    pattern: '/',
    load: () => import('./pages/Overview.svelte'),
    nav: { label: 'Overview', icon: 'overview', group: '' },
  },

  {
    pattern: '/webhooks',
    load: () => import('./pages/Webhooks.svelte'),
    nav: { label: 'Webhooks', icon: 'webhook', group: 'Build' },
  },
  { pattern: '/webhooks/:id', load: () => import('./pages/Webhook.svelte') },
  { pattern: '/webhooks/:id/receipts/:receiptId', load: () => import('./pages/Receipt.svelte') },

  {
    pattern: '/storage',
    load: () => import('./pages/Storage.svelte'),
    nav: { label: 'Storage', icon: 'folder', group: 'Build' },
  },
  { pattern: '/storage/:bucket', load: () => import('./pages/Bucket.svelte') },
  {
    pattern: '/databases',
    load: () => import('./pages/Databases.svelte'),
    nav: { label: 'Databases', icon: 'database', group: 'Build' },
  },
  { pattern: '/databases/:region/:name', load: () => import('./pages/Database.svelte') },
  {
    pattern: '/key-value',
    load: () => import('./pages/Stores.svelte'),
    nav: { label: 'Key-value', icon: 'bolt', group: 'Build' },
  },
  { pattern: '/key-value/:region/:name', load: () => import('./pages/Store.svelte') },
  {
    pattern: '/threads',
    load: () => import('./pages/Threads.svelte'),
    nav: { label: 'Threads', icon: 'thread', group: 'Build' },
  },
  { pattern: '/threads/:id', load: () => import('./pages/Thread.svelte') },
  {
    pattern: '/sessions',
    load: () => import('./pages/Sessions.svelte'),
    nav: { label: 'Sessions', icon: 'session', group: 'Build' },
  },
  { pattern: '/sessions/:id', load: () => import('./pages/Session.svelte') },
  {
    pattern: '/evaluations',
    load: () => import('./pages/Evaluations.svelte'),
    nav: { label: 'Evaluations', icon: 'check', group: 'Build' },
  },
  { pattern: '/evaluations/runs/:id', load: () => import('./pages/EvalRun.svelte') },

  {
    pattern: '/oauth/clients',
    load: () => import('./pages/OAuthApps.svelte'),
    nav: { label: 'OAuth apps', icon: 'app', group: 'Access' },
  },
  {
    pattern: '/oauth/clients/new',
    load: () => import('./pages/OAuthNew.svelte'),
    needs: 'manages',
  },
  { pattern: '/oauth/clients/:id', load: () => import('./pages/OAuthApp.svelte') },
  {
    pattern: '/keys',
    load: () => import('./pages/ApiKeys.svelte'),
    nav: { label: 'API keys', icon: 'key', group: 'Access' },
  },
  {
    pattern: '/members',
    load: () => import('./pages/Members.svelte'),
    nav: { label: 'Members', icon: 'people', group: 'Organization' },
    needs: 'manages',
  },
  {
    pattern: '/projects',
    load: () => import('./pages/Projects.svelte'),
    nav: { label: 'Projects', icon: 'box', group: 'Organization' },
  },
  {
    pattern: '/alerts',
    load: () => import('./pages/Alerts.svelte'),
    nav: { label: 'Alerts', icon: 'bell', group: 'Organization' },
    needs: 'manages',
  },
  {
    pattern: '/audit',
    load: () => import('./pages/Audit.svelte'),
    nav: { label: 'Audit log', icon: 'audit', group: 'Organization' },
    needs: 'manages',
  },
  { pattern: '/organizations', load: () => import('./pages/Organizations.svelte') },

  {
    pattern: '/settings',
    load: () => import('./pages/Settings.svelte'),
    nav: { label: 'Settings', icon: 'settings', group: 'Organization' },
  },
];

// isAllowed reports whether the role of the user includes a page.
export const isAllowed = (route: Route) => !route.needs || session[route.needs];

// find returns the page of a thing that GET /search has found. Databases and stores have their
// region in the address.
export async function find(thing: Schemas['SearchResult']): Promise<string> {
  const kinds: Record<string, 'db' | 'kv'> = { database: 'db', store: 'kv' };
  const kind = kinds[thing.type];
  const placed = kind && (await readOne(kind, '', thing.name));
  if (!placed) return pages[thing.type]?.(thing.id, thing.parent) ?? '/';
  return `${words[kind].path}/${encodeURIComponent(placed.cloud_region)}/${encodeURIComponent(thing.name)}`;
}
