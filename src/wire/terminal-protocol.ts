/** The WebSocket of a terminal in the page, its subprotocol, and that which carries the ticket: a browser sends no other header of ours. */
export const TERMINAL_PATH = '/v1/terminal'
export const TERMINAL_PROTOCOL = 'sallyport.terminal'
export const TICKET_PROTOCOL = 'sallyport.ticket.'
