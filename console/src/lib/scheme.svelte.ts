// The color scheme: the system's, or the one that the user chose.
import { store } from './session.svelte';

export type Choice = 'system' | 'light' | 'dark';

class Scheme {
  choice = $state<Choice>(
    (document.documentElement.dataset.scheme as Choice | undefined) ?? 'system',
  );
  private system = matchMedia('(prefers-color-scheme: dark)');
  private systemDark = $state(this.system.matches);
  // dark is read by what draws on a canvas.
  dark = $derived(this.choice === 'dark' || (this.choice === 'system' && this.systemDark));

  constructor() {
    this.system.addEventListener('change', (e) => (this.systemDark = e.matches));
  }

  set(choice: Choice) {
    this.choice = choice;
    store('steward.scheme', choice === 'system' ? '' : choice);
    if (choice === 'system') delete document.documentElement.dataset.scheme;
    else document.documentElement.dataset.scheme = choice;
  }
}

export const scheme = new Scheme();
