// The SQL that was written in this browser: what is in the editor, for as long as its tab is open,
// and the statements that were run. Both are kept for each database and user, and go when the user
// signs out.

// Limits: databases, statements of one, and characters of one.
const [mostDatabases, mostStatements, mostText] = [10, 50, 100_000];

export interface Statement {
  sql: string;
  at: number;
}

// Kept is a value for each of the databases that were used last.
class Kept<T> {
  private storage: () => Storage;
  private name: string;

  constructor(storage: () => Storage, name: string) {
    this.storage = storage;
    this.name = name;
  }

  private all(): [string, T][] {
    try {
      const all: unknown = JSON.parse(this.storage().getItem(this.name) ?? '[]');
      return Array.isArray(all) ? all : [];
    } catch {
      return [];
    }
  }

  get(database: string): T | undefined {
    return this.all().find(([key]) => key === database)?.[1];
  }

  set(database: string, value: T) {
    const others = this.all().filter(([key]) => key !== database);
    this.store([[database, value], ...others.slice(0, mostDatabases - 1)]);
  }

  forget() {
    this.store([]);
  }

  private store(all: [string, T][]) {
    try {
      if (all.length) this.storage().setItem(this.name, JSON.stringify(all));
      else this.storage().removeItem(this.name);
    } catch {
      // No storage, or it is full: it lasts until the page is left.
    }
  }
}

const drafts = new Kept<string>(() => sessionStorage, 'steward.sql.draft');
const run = new Kept<Statement[]>(() => localStorage, 'steward.sql.history');

export const readDraft = (database: string) => drafts.get(database);
export const keepDraft = (database: string, sql: string) =>
  sql.length <= mostText && drafts.set(database, sql);

// readHistory returns the statements that were run, newest first.
export const readHistory = (database: string): Statement[] => run.get(database) ?? [];

// addToHistory adds a statement that is run and returns the history. A statement is in it once.
export function addToHistory(database: string, sql: string): Statement[] {
  const all = [
    { sql, at: Date.now() },
    ...readHistory(database).filter((s) => s.sql !== sql),
  ].slice(0, mostStatements);
  let left = mostText;
  const kept = all.filter((s) => (left -= s.sql.length) >= 0);
  run.set(database, kept);
  return kept;
}

export function clearHistory(database: string): Statement[] {
  run.set(database, []);
  return [];
}

export function forgetStatements() {
  drafts.forget();
  run.forget();
}
