// Who is signed in, in which organization, and what they may do.
import { headers, Problem, raw, setCaller } from '../api/client';
import { forgetStatements } from './statements';

export type Role = 'owner' | 'admin' | 'member' | 'viewer';

export interface Profile {
  id: string;
  email: string | null;
  firstName?: string | null;
  lastName?: string | null;
  role: string;
  organizations: Organization[];
  can_create_organizations: boolean;
  in_first_organization: boolean;
}

// Organization is an organization of the user. One that was deleted can be restored until removed_at.
export interface Organization {
  id: string;
  name: string;
  role?: string;
  deleted_at?: string;
  removed_at?: string;
}

const orgKey = 'steward.organization';

function stored(key: string): string {
  try {
    return localStorage.getItem(key) ?? '';
  } catch {
    return '';
  }
}

export function store(key: string, value: string) {
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // No storage: it lasts until the page is left.
  }
}

class Session {
  // state: loading until the first response, then in or out, or deleted if the organization was. over
  // is a session that has ended while somebody was using the console; it is in again when that user
  // has signed in, in whichever tab.
  state = $state<'loading' | 'in' | 'out' | 'over' | 'failed' | 'deleted'>('loading');
  user = $state.raw<Profile>();
  organizations = $state.raw<Organization[]>([]);
  failure = $state.raw<unknown>();
  // told is whether the page says that the session is over.
  told = $state(false);
  orgId = stored(orgKey);

  get org() {
    return this.organizations.find((o) => o.id === this.orgId);
  }
  get role() {
    return (this.user?.role ?? 'viewer') as Role;
  }
  // writes reports whether the user may change webhooks, objects, resources, threads and own API
  // keys.
  get writes() {
    return this.role !== 'viewer';
  }
  // manages reports whether the user may manage members, OAuth apps and signing keys.
  get manages() {
    return this.role === 'owner' || this.role === 'admin';
  }
  get name() {
    const full = [this.user?.firstName, this.user?.lastName].filter(Boolean).join(' ');
    return full || this.user?.email || this.user?.id || '';
  }

  // start reads who is signed in.
  async start(): Promise<void> {
    try {
      const profile = raw<Profile>('GET', '/cli/auth/user');
      profile.catch(() => undefined); // it is awaited later
      const own = await raw<Organization[]>('GET', '/cli/organization');
      this.organizations = own;
      if (!own.some((o) => o.id === this.orgId)) this.orgId = own[0]?.id ?? '';
      if (this.org?.deleted_at) {
        this.state = 'deleted';
        return;
      }
      const user = await profile;
      user.organizations = own;
      if (this.user && this.user.id !== user.id) location.reload(); // what the page shows is of somebody else
      this.user = user;
      this.state = 'in';
    } catch (thrown) {
      if (thrown instanceof Problem && thrown.status === 403 && this.orgId) {
        this.choose('', false);
        return this.start();
      }
      if (this.state === 'over') return;
      if (thrown instanceof Problem && thrown.status === 401) this.state = 'out';
      else {
        this.failure = thrown;
        this.state = 'failed';
      }
    }
  }

  // ended is called when a request says that nobody is signed in.
  ended() {
    if (this.state === 'in') this.state = 'over';
    else if (this.state !== 'over') this.state = 'out';
    this.told = true;
  }

  // choose changes the organization that all pages show.
  choose(orgId: string, reload = true) {
    this.orgId = orgId;
    store(orgKey, orgId);
    if (reload) location.assign('/console/');
  }

  async signOut() {
    await fetch('/console/sign-out', { method: 'POST', headers: headers() });
    store(orgKey, '');
    forgetStatements();
    location.assign('/console/');
  }
}

export const session = new Session();
setCaller(session);

// signInUrl returns where to sign in and come back to the page that is shown.
export function signInUrl(): string {
  return '/console/sign-in?return=' + encodeURIComponent(location.pathname + location.search);
}
