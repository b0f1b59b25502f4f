// pages maps the types of GET /search to the page of a thing.
export const pages: Record<string, (id: string, parent?: string) => string> = {
  webhook: (id) => '/webhooks/' + encodeURIComponent(id),
  destination: (_, webhook = '') => `/webhooks/${encodeURIComponent(webhook)}?tab=destinations`,
  receipt: (id, webhook = '') =>
    `/webhooks/${encodeURIComponent(webhook)}/receipts/${encodeURIComponent(id)}`,
  bucket: (id) => '/storage/' + encodeURIComponent(id),
  thread: (id) => '/threads/' + encodeURIComponent(id),
  session: (id) => '/sessions/' + encodeURIComponent(id),
  eval: (id) => '/evaluations?eval=' + encodeURIComponent(id),
  eval_run: (id) => '/evaluations/runs/' + encodeURIComponent(id),
  oauth_client: (id) => '/oauth/clients/' + encodeURIComponent(id),
  api_key: () => '/keys',
  database: () => '/databases',
  store: () => '/key-value',
  member: (id) => '/members?find=' + encodeURIComponent(id),
  project: () => '/projects',
};
