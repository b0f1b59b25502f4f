// The sign-in pages of the server as a dialog shows them. The server alone knows what a user can sign in again
// with, and what comes after a password.
import { Problem } from '../api/problem';
import { signInUrl } from './session.svelte';

// Page is what a page has: those of the server's package pages, or done once the user has signed in.
export type Page =
  | { page: 'done'; view: Record<string, never> }
  | { page: 'signin.html'; view: SignIn }
  | { page: 'factor.html'; view: Form }
  | { page: 'message.html'; view: { Title: string; Text: string } };

interface Form {
  CSRF: string;
  Flow: string;
  Problem: string;
  Email: string;
}

export interface SignIn extends Form {
  NoPassword: boolean;
  Passkey: { Options: string; Challenge: string } | null;
  Upstreams: { ID: string; Name: string }[] | null;
}

export const openPage = () => request(signInUrl() + '&recent=1');

export const sendPassword = (to: SignIn, password: string) =>
  send('/sign-in', to, { email: to.Email, password });

export const sendCode = (to: Form, code: string) => send('/sign-in/factor', to, { code });

function send(path: string, form: Form, fields: Record<string, string>): Promise<Page> {
  const body = new URLSearchParams({ csrf: form.CSRF, flow: form.Flow, ...fields });
  return request(path, { method: 'POST', body });
}

async function request(address: string, init: RequestInit = {}): Promise<Page> {
  const response = await fetch(address, { ...init, headers: { Accept: 'application/json' } });
  const path = new URL(response.url).pathname;
  if (path.startsWith('/console/') && path !== '/console/sign-in')
    return { page: 'done', view: {} };
  if (!response.headers.get('Content-Type')?.startsWith('application/json')) {
    throw new Problem({ status: response.status, detail: 'The server did not answer.' });
  }
  return response.json();
}

// usePasskey sends what the authenticator has signed, as the script of the page does.
export async function usePasskey(to: SignIn): Promise<Page> {
  const publicKey = JSON.parse(to.Passkey?.Options ?? '{}');
  publicKey.challenge = decode(publicKey.challenge);
  let used: PublicKeyCredential;
  try {
    used = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential;
  } catch {
    throw new Error('No passkey was used. Try again.');
  }
  const { clientDataJSON, authenticatorData, signature, userHandle } =
    used.response as AuthenticatorAssertionResponse;
  const id = encode(used.rawId);
  const response = {
    clientDataJSON: encode(clientDataJSON),
    authenticatorData: encode(authenticatorData),
    signature: encode(signature),
    userHandle: userHandle ? encode(userHandle) : undefined,
  };
  const credential = JSON.stringify({ id, rawId: id, type: used.type, response });
  return send('/sign-in/passkey', to, { challenge: to.Passkey?.Challenge ?? '', credential });
}

function decode(text: string): Uint8Array {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

function encode(buffer: ArrayBuffer): string {
  const binary = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
