// The API as pages use it. Every function throws a Problem if the request fails.
//
//   const hook = await ok(api.GET('/webhook/get/{webhookId}', { params: { path: { webhookId } } }));
//   const query = { limit: 50 };
//   const { items, total, next } = await list(api.GET('/webhook/list', { params: { query } }));
//   const status = await raw<Status>('GET', '/status'); // a route that is not in the document yet
import createClient from 'openapi-fetch';
import type { components, paths } from './schema';
import { asProblem, problemOf } from './problem';

export type Schemas = components['schemas'];
export { Problem } from './problem';

export const base = '/console/api';

// Caller is whom requests are sent for. ended is called when a request says that nobody is signed
// in.
export interface Caller {
  orgId: string;
  ended(): void;
}

let caller: Caller = { orgId: '', ended: () => undefined };

// setCaller is called by the session, which needs this module and thus cannot be imported here.
export function setCaller(c: Caller) {
  caller = c;
}

// SignInAgain asks for a new sign-in. ask returns the number of the prompt if a request is to be sent
// again, or 0. One that was, and is refused again, passes that number: the user may have cancelled the
// prompt in the meantime. end is called when it is no longer refused.
export interface SignInAgain {
  ask(prompt: number): Promise<number>;
  end(again: boolean): void;
}

let signInAgain: SignInAgain = { ask: async () => 0, end: () => undefined };

// setSignInAgain is called by the module with the dialog, as setCaller is by the session.
export function setSignInAgain(s: SignInAgain) {
  signInAgain = s;
}

// isStale reports whether a response says that a recent sign-in is needed.
async function isStale(response: Response): Promise<boolean> {
  if (response.status !== 403) return false;
  const body = parse(await response.clone().text()) as { code?: string } | undefined;
  return body?.code === 'reauthentication_required';
}

// repeated sends a request, and again after a new sign-in if it needs one. The server refuses such
// a request before it does anything.
async function repeated(request: () => Promise<Response>): Promise<Response> {
  let response = await request();
  if (!(await isStale(response))) return response;
  for (let prompt = 0; await isStale(response);) {
    prompt = await signInAgain.ask(prompt);
    if (!prompt) return response;
    response = await request();
  }
  signInAgain.end(true);
  return response;
}

// headers returns the headers of every request.
export function headers(more: Record<string, string> = {}): Record<string, string> {
  const all: Record<string, string> = { 'X-Steward-Console': '1', ...more };
  if (caller.orgId) all['X-Steward-Organization'] = caller.orgId;
  return all;
}

// send is fetch with the headers of the console.
export async function send(
  path: string,
  init: RequestInit & { headers?: Record<string, string> } = {},
): Promise<Response> {
  try {
    return await repeated(() => fetch(base + path, { ...init, headers: headers(init.headers) }));
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === 'AbortError') throw thrown;
    throw asProblem(thrown);
  }
}

// save sends a GET and saves the body of the response as a file, once all of it has arrived.
export async function save(path: string, query: Record<string, string | undefined>, name: string) {
  const given = Object.entries(query).filter((e): e is [string, string] => e[1] !== undefined);
  const response = await send(`${path}?${new URLSearchParams(given)}`);
  if (!response.ok) throw problemOf(parse(await response.text()), response);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// An answer with Content-Length: 0 is read as such by openapi-fetch; one without a body and without
// that header is not, and it must not fail.
export const api = createClient<paths>({
  baseUrl: base,
  fetch: async (request: Request) => {
    for (const [name, value] of Object.entries(headers())) request.headers.set(name, value);
    try {
      // Dry runs are sent while the user types.
      if (request.url.includes('dry_run=true')) return await fetch(request);
      return await repeated(() => fetch(request.clone()));
    } catch (thrown) {
      if (thrown instanceof DOMException && thrown.name === 'AbortError') throw thrown;
      throw asProblem(thrown);
    }
  },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

function check<T>(answer: Answer<T>): T {
  if (answer.response.ok) return answer.data as T;
  const problem = problemOf(answer.error, answer.response);
  if (problem.status === 401) caller.ended();
  throw problem;
}

// ok returns the body of a response.
export async function ok<T>(answer: Promise<Answer<T>>): Promise<T> {
  return check(await answer);
}

export interface Page<T> {
  items: T[];
  // total is undefined if the server does not know it.
  total?: number;
  // next is the cursor of the next page.
  next?: string;
  // searchedTo is the time to which a search looked that is not complete.
  searchedTo?: string;
}

// list returns a page of a list.
export async function list<T>(answer: Promise<Answer<T[]>>): Promise<Page<T>> {
  const got = await answer;
  return pageOf(check(got), got.response);
}

function pageOf<T>(items: T[], response: Response): Page<T> {
  const total = response.headers.get('X-Total-Count');
  const next = /<([^>]+)>;\s*rel="?next"?/.exec(response.headers.get('Link') ?? '')?.[1];
  const cursor = next ? new URL(next, location.origin).searchParams.get('cursor') : null;
  return {
    items: items ?? [],
    total: total === null ? undefined : Number(total),
    next: cursor ?? undefined,
    searchedTo: response.headers.get('Steward-Searched-To') ?? undefined,
  };
}

// raw sends a request with a JSON body and returns the JSON of the response.
export async function raw<T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const init: RequestInit & { headers: Record<string, string> } = { method, signal, headers: {} };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  const response = await send(path, init);
  const text = await response.text();
  const parsed = parse(text);
  return check<T>({ data: parsed as T, error: parsed, response });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// optional returns undefined for a route that the server does not have.
export async function optional<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (thrown) {
    const p = asProblem(thrown);
    if (p.status === 404 || p.status === 405) return undefined;
    throw p;
  }
}
