import { position } from '../bridge.js';

export default {
  scenario: {
    get name() {
      return position.scenario;
    },
    get iterationInTest() {
      return position.iteration;
    },
  },
  vu: {
    get idInTest() {
      return position.vu;
    },
    get iterationInInstance() {
      return position.own;
    },
  },
};
