// Requests that need a recent sign-in. One that is refused is sent again once the user has signed
// in, until it is no longer refused or the user cancels.
import { setSignInAgain } from '../api/client';
import { session } from './session.svelte';

class Recent {
  // asking is whether the page asks for a new sign-in.
  asking = $state(false);
  // prompt is the number of the prompt, which changes when it is cancelled.
  private prompt = 1;
  private waiting: ((prompt: number) => void)[] = [];

  // ask returns the number of the prompt once a request is to be sent again, or 0 if that, or the one
  // that the request was sent again for, is cancelled.
  ask(prompt: number): Promise<number> {
    if (prompt && prompt !== this.prompt) return Promise.resolve(0);
    this.asking = true;
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  // signIn asks for a new sign-in without a request, and returns whether there was one.
  async signIn(): Promise<boolean> {
    const again = await this.ask(0);
    if (again) this.end(true);
    return again > 0;
  }

  // look has the requests sent again, unless somebody else is signed in now.
  async look() {
    const user = session.user?.id;
    await session.start();
    if (session.user?.id === user) this.resolve(true);
  }

  // end has the requests fail, or closes the dialog when they have succeeded.
  end(again: boolean) {
    this.asking = false;
    this.resolve(again);
    if (!again) this.prompt++;
  }

  private resolve(again: boolean) {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve(again ? this.prompt : 0);
  }
}

export const recent = new Recent();
setSignInAgain(recent);
