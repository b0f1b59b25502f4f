// Toasts and questions, shown by App.
import { asProblem, type Problem, titleOf } from '../api/problem';

export interface Toast {
  id: number;
  kind: 'good' | 'bad';
  text: string;
  problem?: Problem;
}

class Notices {
  toasts = $state.raw<Toast[]>([]);
  question = $state.raw<Question>();
  private last = 0;

  add(kind: Toast['kind'], text: string, problem?: Problem) {
    const id = ++this.last;
    this.toasts = [...this.toasts.slice(-3), { id, kind, text, problem }];
    setTimeout(() => this.remove(id), kind === 'bad' ? 12_000 : 6_000);
  }

  remove(id: number) {
    this.toasts = this.toasts.filter((t) => t.id !== id);
  }
}

export const notices = new Notices();

// done says that something worked.
export function done(text: string) {
  notices.add('good', text);
}

// failed says that something did not work. The end of the session is told once, by App.
export function failed(thrown: unknown) {
  const problem = asProblem(thrown);
  if (problem.status === 401) return;
  notices.add('bad', titleOf(problem), problem);
}

export interface Question {
  title: string;
  // text says what will happen, and what goes.
  text: string;
  // action is the label of the button, such as "Delete webhook".
  action: string;
  // name must be typed before the button works. Set it where something cannot be brought back.
  name?: string;
  danger?: boolean;
  // run does it. The dialog stays open and shows the problem if it fails.
  run: () => Promise<unknown>;
}

// ask asks before something is done.
export function ask(question: Question) {
  notices.question = question;
}
