// What the search can do besides going to pages and things: create things, change the color scheme
// or the organization, sign out. Commands that the user may not use are left out.
import { scheme, type Choice } from './lib/scheme.svelte';
import { session } from './lib/session.svelte';
import type { IconName } from './ui/Icon.svelte';

export interface Command {
  label: string;
  // also are other words by which it is found.
  also: string;
  icon: IconName;
  // run does it, and returns the page to open, if there is one.
  run: () => string | void | Promise<void>;
}

const create = (label: string, path: string): Command => ({
  label,
  also: 'new add',
  icon: 'plus',
  run: () => path,
});

const schemes: Record<Choice, { label: string; icon: IconName }> = {
  dark: { label: 'Dark mode', icon: 'moon' },
  light: { label: 'Light mode', icon: 'sun' },
  system: { label: 'Color scheme of the system', icon: 'settings' },
};

export function commands(): Command[] {
  const choices = (Object.keys(schemes) as Choice[]).filter((choice) => choice !== scheme.choice);
  const others = session.user?.organizations.filter((o) => o.id !== session.orgId) ?? [];
  return [
    ...(session.writes
      ? [
          create('Create webhook', '/webhooks?new=1'),
          create('Create bucket', '/storage?new=1'),
          create('Create database', '/databases?new=1'),
          create('Create key-value store', '/key-value?new=1'),
          create('Create API key', '/keys?new=1'),
          create('Create project', '/projects?new=1'),
        ]
      : []),
    ...(session.manages
      ? [
          create('Create OAuth app', '/oauth/clients/new'),
          create('Create alert', '/alerts?new=1'),
          create('Invite member', '/members?new=1'),
        ]
      : []),
    ...(session.user?.can_create_organizations
      ? [create('Create organization', '/organizations?new=1')]
      : []),
    ...choices.map((choice): Command => ({
      ...schemes[choice],
      also: 'theme color scheme mode',
      run: () => scheme.set(choice),
    })),
    ...others.map((o): Command => ({
      label: `Switch to ${o.name}`,
      also: 'organization',
      icon: 'people',
      run: () => session.choose(o.id),
    })),
    { label: 'Sign out', also: 'log out logout', icon: 'out', run: () => session.signOut() },
  ];
}
