// The way to the page that is shown.
export interface Crumb {
  label: string;
  href?: string;
}

class Crumbs {
  list = $state.raw<Crumb[]>([]);
  set(list: Crumb[]) {
    this.list = list;
  }
}

export const crumbs = new Crumbs();
