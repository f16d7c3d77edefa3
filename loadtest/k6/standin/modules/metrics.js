import { record } from '../bridge.js';

class Metric {
  constructor(name, type) {
    this.name = name;
    this.type = type;
  }

  add(value, tags = {}) {
    record(this.name, this.type, Number(value), tags);
  }
}

export class Counter extends Metric {
  constructor(name) {
    super(name, 'counter');
  }
}

export class Gauge extends Metric {
  constructor(name) {
    super(name, 'gauge');
  }
}

export class Rate extends Metric {
  constructor(name) {
    super(name, 'rate');
  }
}

export class Trend extends Metric {
  constructor(name) {
    super(name, 'trend');
  }
}
