export { describeCommand, type CommandWish, type Surroundings } from './describe.ts'
