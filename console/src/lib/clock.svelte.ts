// now is the time for relative times, which move on while a page is open.
class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => document.visibilityState === 'visible' && (this.now = Date.now()), 5_000);
  }
}

export const clock = new Clock();
